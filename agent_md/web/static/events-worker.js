// One event stream for all tabs of a browser.
"use strict";

const ports = new Set();
let source = null;
let state = "connecting";

function tellAll(message) {
  for (const port of ports) port.postMessage(message);
}

function connect() {
  source = new EventSource("/ui/events");
  source.onopen = () => {
    tellAll({ event: state === "lost" ? "resync" : "open" });
    state = "open";
  };
  source.onerror = () => {
    state = "lost";
    tellAll({ event: "lost" });
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
  for (const name of ["count", "opened", "closed", "touched", "resync"]) {
    source.addEventListener(name, (message) => tellAll({ event: name, data: JSON.parse(message.data) }));
  }
}

onconnect = (connection) => {
  const port = connection.ports[0];
  ports.add(port);
  port.onmessage = (message) => {
    if (message.data === "leave") ports.delete(port);
  };
  if (source === null) connect();
  port.postMessage({ event: state === "lost" ? "lost" : "open" });
};
