"""Chat models: from a reference to an answer, its failures, retries and usage. Provider packages are imported last."""
