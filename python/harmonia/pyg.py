"""torch_geometric: explanations in its form, and a model that its explainers and metrics can call. Imported by nobody but you.

    from harmonia import pyg
    explainer = pyg.explainer(model)
    explanation = explainer(data.x, data.edge_index, index=42)
    torch_geometric.explain.metric.fidelity(explainer, explanation)
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch
from torch_geometric.explain import Explainer
from torch_geometric.explain import Explanation as PygExplanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ModelMode
from torch_geometric.nn import MessagePassing

from ._explanations import Explanation


def explanation(found: Explanation, x: Any, edge_index: Any) -> Any:
    """``node_mask``: absolute values, because only what is above 0 survives there; ``signed_node_mask``: as they are. Where effects of
    edges were asked for, ``edge_mask`` and ``signed_edge_mask`` likewise."""
    if "node" not in found.by:
        raise ValueError(f'terms are by {", ".join(found.by)}: expected them by node, as in explain_local(nodes, by=("node", "feature"), top=None)')
    features, ends = torch.as_tensor(x), torch.as_tensor(edge_index)
    columns = features.shape[1] if "feature" in found.by else 1
    signed = torch.zeros((features.shape[0], columns))
    for term in found.terms:
        column = term["feature_index"] if columns > 1 else 0
        if column < columns:
            signed[term["node_id"], column] += term["value"]
    made = PygExplanation(x=features, edge_index=ends, node_mask=signed.abs())
    made.signed_node_mask = signed
    if found.has_edges:
        made.signed_edge_mask = of_edges(found, ends)
        made.edge_mask = made.signed_edge_mask.abs()
    made.logit, made.intercept = found.logit, found.intercept
    return made


def of_edges(found: Explanation, ends: Any) -> Any:
    """The change of the logit for each column of an ``edge_index``; 0 for edges that the prediction does not see."""
    changes = {(a, b): change for a, b, change in found.edges}
    if found.both_ways:
        changes.update({(b, a): change for a, b, change in found.edges})
    return torch.tensor([changes.get((a, b), 0.0) for a, b in ends.t().tolist()], dtype=torch.float32)


class Masked(MessagePassing):
    """Where torch_geometric puts the mask of edges that it wants a prediction under. A class of its own: an instance writes methods into
    its class, which every layer would inherit from MessagePassing."""


class Module(torch.nn.Module):
    """A fitted model as a module: ``forward(x, edge_index)`` gives logits. It has no gradients."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.masked = Masked()

    def forward(self, x: Any, edge_index: Any) -> Any:
        """Logits, units x outputs; of two classes both. Under a mask, edges have it as their weights: an edge of weight 0 is dropped."""
        graph: Any = edge_index.detach().cpu().numpy()
        mask = self.masked._edge_mask
        if mask is not None:
            # As in layers of torch_geometric, loops are not masked.
            weights = np.where(graph[0] == graph[1], 1.0, mask.detach().cpu().numpy().clip(min=0.0))
            graph = graph[:, weights > 0], weights[weights > 0]
        logits = self.model.decision_function(x.detach().cpu().numpy(), graph=graph)
        if logits.ndim == 1:
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        return torch.as_tensor(logits, dtype=torch.float32, device=x.device)


class Terms(ExplainerAlgorithm):
    """The exact terms of the sum, as an algorithm of torch_geometric; with the exact effects of edges where these are asked for."""

    def __init__(self, most_edges: int = 20_000) -> None:
        super().__init__()
        self.most_edges = most_edges

    def forward(self, model: Any, x: Any, edge_index: Any, *, target: Any, index: Optional[Any] = None, **more: Any) -> Any:
        """One node: the terms of its target class, by node and feature."""
        if index is None:
            raise ValueError("expected index: the node to explain")
        node = int(torch.as_tensor(index).reshape(-1)[0])
        ours = model.model
        class_ = ours.classes_[int(torch.as_tensor(target).reshape(-1)[node if torch.as_tensor(target).numel() > 1 else 0])]
        arrays = x.detach().cpu().numpy(), edge_index.detach().cpu().numpy()
        edges = self.explainer_config.edge_mask_type is not None
        asked = {"by": ("node", "feature"), "top": None, "class_": class_, "edges": edges, "most_edges": self.most_edges}
        return explanation(ours.explain_local([node], X=arrays[0], graph=arrays[1], **asked)[0], x, edge_index)

    def supports(self) -> bool:
        """Classes of nodes."""
        return bool(self.model_config.mode == ModelMode.multiclass_classification)


def explainer(model: Any, *, edges: bool = False, most_edges: int = 20_000, **more: Any) -> Any:
    """A ``torch_geometric.explain.Explainer`` of a fitted classifier of nodes. ``edges``: with an ``edge_mask``, too; ``more``: other
    arguments of it, such as ``threshold_config``."""
    return Explainer(
        model=Module(model),
        algorithm=Terms(most_edges),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object" if edges else None,
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        **more,
    )
