"""``python -m tutelage``: the command line, which is a package of its own."""

from runpy import run_module

if __name__ == "__main__":
    run_module("tutelage_cli", run_name="__main__", alter_sys=True)
