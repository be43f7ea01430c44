"""Chat models: providers, streaming, failures, retries and usage. Provider packages are imported last."""
