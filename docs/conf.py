"""Settings of the documentation site; `make docs` builds it into build/docs."""

from importlib.metadata import version as version_of

project = "tutelage"
author = "The tutelage developers"
version = release = version_of("tutelage")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"tutelage {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

# Nothing is fetched where the page is read: no mathematics, fonts or icons from elsewhere.
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_block", "attrs_inline"]


autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
napoleon_custom_sections = ["Shapes", "Yields"]
napoleon_use_rtype = False
default_role = "literal"
