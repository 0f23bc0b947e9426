"""Other people's training loops, a file for each framework, which it alone imports."""

from tutelage.integrations.teaching import BesideStudent, Teaching

__all__ = ["BesideStudent", "Teaching"]
