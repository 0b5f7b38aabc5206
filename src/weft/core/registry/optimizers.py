"""Optimisers, by the class of their settings."""

from weft.core.registry.entry import Entry

OPTIMIZERS = {
    "sgd": Entry("weft.training.optimizer.settings:SGD", 1951, "stochastic gradient descent; full-batch with batch = data"),
    "asgd": Entry("weft.training.optimizer.settings:ASGD", 1992, "SGD with averaged weights (ASGD, NT-ASGD)"),
    "momentum": Entry("weft.training.optimizer.settings:Momentum", 1964, "heavy-ball momentum"),
    "rmsprop": Entry("weft.training.optimizer.settings:RMSProp", 2012, "gradient over its running size"),
    "adam": Entry("weft.training.optimizer.settings:Adam", 2014, "bias-corrected first and second moments"),
    "adamw": Entry("weft.training.optimizer.settings:AdamW", 2017, "Adam with decoupled weight decay"),
    "muon": Entry("weft.training.optimizer.settings:Muon", 2024, "orthogonalised momentum for matrices, AdamW for the rest"),
}
