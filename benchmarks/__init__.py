"""What things cost, here and with other libraries."""
