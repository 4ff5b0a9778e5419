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

from ._explanations import Explanation


def explanation(found: Explanation, x: Any, edge_index: Any) -> Any:
    """``node_mask``: absolute values, because only what is above 0 survives there; ``signed_node_mask``: as they are."""
    if "node" not in found.by:
        raise ValueError(f'terms are by {", ".join(found.by)}: expected them by node, as in explain_local(nodes, by=("node", "feature"), top=None)')
    features = torch.as_tensor(x)
    columns = features.shape[1] if "feature" in found.by else 1
    signed = torch.zeros((features.shape[0], columns))
    for term in found.terms:
        column = term["feature_index"] if columns > 1 else 0
        if column < columns:
            signed[term["node_id"], column] += term["value"]
    made = PygExplanation(x=features, edge_index=torch.as_tensor(edge_index), node_mask=signed.abs())
    made.signed_node_mask = signed
    made.logit, made.intercept = found.logit, found.intercept
    return made


class Module(torch.nn.Module):
    """A fitted model as a module: ``forward(x, edge_index)`` gives logits. It has no gradients."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any, edge_index: Any) -> Any:
        """Logits, units x outputs; of two classes both."""
        logits = self.model.decision_function(x.detach().cpu().numpy(), graph=edge_index.detach().cpu().numpy())
        if logits.ndim == 1:
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        return torch.as_tensor(logits, dtype=torch.float32, device=x.device)


class Terms(ExplainerAlgorithm):
    """The exact terms of the sum, as an algorithm of torch_geometric."""

    def forward(self, model: Any, x: Any, edge_index: Any, *, target: Any, index: Optional[Any] = None, **more: Any) -> Any:
        """One node: the terms of its target class, by node and feature."""
        if index is None:
            raise ValueError("expected index: the node to explain")
        node = int(torch.as_tensor(index).reshape(-1)[0])
        ours = model.model
        class_ = ours.classes_[int(torch.as_tensor(target).reshape(-1)[node if torch.as_tensor(target).numel() > 1 else 0])]
        arrays = x.detach().cpu().numpy(), edge_index.detach().cpu().numpy()
        found = ours.explain_local([node], by=("node", "feature"), top=None, class_=class_, X=arrays[0], graph=arrays[1])[0]
        return explanation(found, x, edge_index)

    def supports(self) -> bool:
        """Classes of nodes."""
        return bool(self.model_config.mode == ModelMode.multiclass_classification)


def explainer(model: Any) -> Any:
    """A ``torch_geometric.explain.Explainer`` of a fitted classifier of nodes."""
    return Explainer(
        model=Module(model),
        algorithm=Terms(),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type=None,
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
