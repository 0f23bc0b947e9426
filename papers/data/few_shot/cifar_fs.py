"""The classes of CIFAR-100 as CIFAR-FS divides them: 64 to train, 16 held out, 20 to test on.

Source: Bertinetto et al., 2019, "Meta-learning with differentiable closed-form solvers",
section 4.1; the lists are those that its code gives.
"""

_TRAIN = """
    apple aquarium_fish bear bee bottle bowl boy bridge bus can castle caterpillar chair
    clock cloud cockroach couch cup dinosaur dolphin elephant forest girl hamster house
    kangaroo keyboard lawn_mower lion lizard lobster mountain mouse mushroom oak_tree orange
    orchid palm_tree pear pine_tree plate porcupine possum rabbit raccoon ray road seal
    shrew skunk skyscraper snake spider squirrel streetcar sunflower tank tiger train trout
    tulip turtle willow_tree wolf
"""
_HELD_OUT = """
    beaver beetle butterfly camel cattle crab crocodile flatfish lamp maple_tree motorcycle
    otter sea shark television tractor
"""
_TEST = """
    baby bed bicycle chimpanzee fox leopard man pickup_truck plain poppy rocket rose snail
    sweet_pepper table telephone wardrobe whale woman worm
"""

TRAIN, HELD_OUT, TEST = (tuple(names.split()) for names in (_TRAIN, _HELD_OUT, _TEST))
