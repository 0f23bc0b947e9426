"""Learning commentaries from the command line, and showing what they learned."""
