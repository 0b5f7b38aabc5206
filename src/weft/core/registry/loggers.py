"""Where the numbers and samples of a run go besides its own folder's metrics.jsonl."""

from weft.core.registry.entry import Entry

LOGGERS = {
    "tensorboard": Entry("weft.training.loggers.tensorboard:TensorBoard", 2015, "event files in the run's folder"),
    "wandb": Entry("weft.training.loggers.wandb:WandB", 2018, "Weights & Biases, on line or off (WANDB_MODE=offline)"),
    "mlflow": Entry("weft.training.loggers.mlflow:MLflow", 2018, "an MLflow store or server (MLFLOW_TRACKING_URI)"),
}
