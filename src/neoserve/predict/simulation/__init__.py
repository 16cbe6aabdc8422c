"""Continuous batching, request by request: events where the batch changes, sums between them."""
