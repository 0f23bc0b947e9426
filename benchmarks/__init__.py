"""What this library costs, measured side by side."""
