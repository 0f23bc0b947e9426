"""Mixed and Hessian products, on which differentiable signals are built."""

from tutelage.signals.products.automatic import Automatic
from tutelage.signals.products.double_backward import DoubleBackward
from tutelage.signals.products.finite_difference import FiniteDifference
from tutelage.signals.products.first_order import FirstOrder
from tutelage.signals.products.forward_over_reverse import ForwardOverReverse
from tutelage.signals.products.gradient_dots import Alignment
from tutelage.signals.products.product import Linearised, Product
from tutelage.signals.products.row_dots import DotProducts, only_weighs

__all__ = [
    "Alignment",
    "Automatic",
    "DotProducts",
    "DoubleBackward",
    "FiniteDifference",
    "FirstOrder",
    "ForwardOverReverse",
    "Linearised",
    "Product",
    "only_weighs",
]
