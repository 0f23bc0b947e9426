"""Mixed and Hessian products, on which differentiable signals are built."""

from tutelage.signals.products.automatic import Automatic
from tutelage.signals.products.double_backward import DoubleBackward
from tutelage.signals.products.finite_difference import FiniteDifference
from tutelage.signals.products.first_order import FirstOrder
from tutelage.signals.products.forward_over_reverse import ForwardOverReverse
from tutelage.signals.products.gradient_dots import Alignment, only_weighs
from tutelage.signals.products.protocol import Linearised, Product

__all__ = [
    "Alignment",
    "Automatic",
    "DoubleBackward",
    "FiniteDifference",
    "FirstOrder",
    "ForwardOverReverse",
    "Linearised",
    "Product",
    "only_weighs",
]
