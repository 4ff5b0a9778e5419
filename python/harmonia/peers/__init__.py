"""Peers in the same API: graph networks and explainers of torch_geometric, on the same data and splits. Needs ``harmonia[peers]``.

Thin on purpose: a network as its own documentation trains it, behind ``fit``, ``predict`` and ``predict_proba``, so that a comparison is
a change of one line. `harmonia study --peers PYTHON` runs the modules beside this one. Nothing else of the package imports it.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch_geometric.explain import Explainer, GNNExplainer, PGExplainer

from .._base import Base, not_fitted
from ..datasets import Dataset, open_dataset
from .networks import HEADS, LAYERS, NodeNetwork, accuracy, train

Self = TypeVar("Self", bound="GraphNetwork")


class GraphNetwork(Base):
    """GCN, GAT, GraphSAGE or a graph transformer that predicts classes of nodes."""

    _estimator_type = "classifier"

    def __init__(
        self,
        layer: str = "gcn",
        *,
        hidden: int = 64,
        depth: int = 2,
        heads: Optional[int] = None,
        dropout: float = 0.5,
        learning_rate: float = 0.01,
        weight_decay: float = 5e-4,
        epochs: int = 200,
        random_state: int = 0,
    ) -> None:
        self.layer = layer
        self.hidden = hidden
        self.depth = depth
        self.heads = heads
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.random_state = random_state

    def fit(self: Self, data: Any) -> Self:
        """Trains on a dataset (or its name or path) with a split of its own; keeps the epoch that validates best."""
        if self.layer not in LAYERS:
            raise ValueError(f"layer is {self.layer!r}: expected one of {', '.join(LAYERS)}")
        dataset = open_dataset(data)
        if dataset is None or dataset.batch is not None or not len(dataset.train):
            raise ValueError("expected a dataset of nodes with a split of its own, as harmonia.datasets.load gives it")
        torch.manual_seed(self.random_state)
        self.x_, self.edge_index_ = torch.as_tensor(dataset.x), _messages(dataset)
        y = torch.as_tensor(dataset.y)
        self.classes_ = np.arange(len(dataset.class_names))
        heads = HEADS.get(self.layer, 1) if self.heads is None else self.heads
        sizes = {"hidden": self.hidden, "depth": self.depth, "heads": heads}
        network = NodeNetwork(self.layer, self.x_.shape[1], len(self.classes_), dropout=self.dropout, **sizes)
        learn, valid = torch.as_tensor(dataset.train), torch.as_tensor(dataset.validation)

        def steps() -> Iterator[Any]:
            yield functional.cross_entropy(network(self.x_, self.edge_index_)[learn], y[learn])

        def merit() -> float:
            return accuracy(network(self.x_, self.edge_index_)[valid], y[valid])

        def keep() -> dict[str, Any]:
            return {name: value.clone() for name, value in network.state_dict().items()}

        kept = train(network, steps, merit, keep, rate=self.learning_rate, decay=self.weight_decay, epochs=self.epochs)
        if kept is not None:
            network.load_state_dict(kept)
        self.network_ = network.eval()
        return self

    def predict_proba(self, data: Any = None) -> NDArray[np.float64]:
        """Probabilities of all nodes, of the data of training or of others."""
        if "network_" not in self.__dict__:
            raise not_fitted(self)
        other = None if data is None else open_dataset(data)
        x, edges = (self.x_, self.edge_index_) if other is None else (torch.as_tensor(other.x), _messages(other))
        with torch.no_grad():
            found = self.network_(x, edges).softmax(1).numpy()
        return cast("NDArray[np.float64]", found)

    def predict(self, data: Any = None) -> NDArray[np.int64]:
        """Most probable class of every node."""
        return cast("NDArray[np.int64]", self.classes_[self.predict_proba(data).argmax(axis=1)])

    def explain(self, node: int, *, by: str = "gnnexplainer", epochs: Optional[int] = None) -> Any:
        """A ``torch_geometric.explain.Explanation`` of one node, by GNNExplainer or PGExplainer."""
        if "network_" not in self.__dict__:
            raise not_fitted(self)
        config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
        if by == "gnnexplainer":
            algorithm = GNNExplainer(epochs=epochs or 100)
            explainer = Explainer(
                self.network_, algorithm, explanation_type="model", node_mask_type="attributes", edge_mask_type="object", model_config=config
            )
            return explainer(self.x_, self.edge_index_, index=node)
        if by != "pgexplainer":
            raise ValueError(f"by is {by!r}: expected gnnexplainer or pgexplainer")
        algorithm = PGExplainer(epochs=epochs or 30)
        explainer = Explainer(self.network_, algorithm, explanation_type="phenomenon", edge_mask_type="object", model_config=config)
        target = torch.as_tensor(self.predict())
        for epoch in range(algorithm.epochs):
            algorithm.train(epoch, self.network_, self.x_, self.edge_index_, target=target, index=node)
        return explainer(self.x_, self.edge_index_, index=node, target=target)


def _messages(dataset: Dataset) -> Any:
    """Edges as torch_geometric has them: a message goes to the node below, so that is who reads."""
    return torch.as_tensor(dataset.edge_index[::-1].copy())
