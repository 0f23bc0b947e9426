"""Students that only the papers' recipes train."""
