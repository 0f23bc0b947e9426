"""What ``tutelage train`` does: taught students beside an untaught one, seed by seed."""
