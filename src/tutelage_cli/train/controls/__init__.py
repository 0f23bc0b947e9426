"""What a user would do with the same checked examples, without a teacher."""
