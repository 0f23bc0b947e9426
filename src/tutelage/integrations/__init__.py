"""Teaching in other training loops, one module for each framework."""

from tutelage.integrations.teaching import BesideStudent, Teaching

__all__ = ["BesideStudent", "Teaching"]
