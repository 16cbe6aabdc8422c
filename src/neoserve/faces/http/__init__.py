"""The server of pages, JSON and agents: who may ask, what is answered, how runs are followed."""
