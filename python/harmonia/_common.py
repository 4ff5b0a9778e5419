"""What classifier and regressor share: scikit-learn's conventions on the outside, the engine's settings and models inside."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar, Union, cast

import numpy as np
from numpy.typing import NDArray

from . import _harmonia, _inputs, _targets, _words
from ._base import Base, not_fitted
from ._explanations import Diagnosis, Explanation, Explanations, GlobalExplanation, Intervention, Shape
from .datasets import open_dataset

Self = TypeVar("Self", bound="HarmoniaBase")
Callback = Callable[[dict[str, Any]], Any]

#: Parameters of the constructor, and the settings of the command line (``--set``) that they are.
SETTINGS = {
    "kind": "model.kind",
    "hops": "model.hops",
    "experts": "model.experts",
    "active": "model.active",
    "bases": "model.bases",
    "hidden": "model.hidden",
    "hop_weights": "model.hop_weights",
    "monotone": "model.monotone",
    "epochs": "train.epochs",
    "patience": "train.patience",
    "learning_rate": "train.learning_rate",
    "weight_decay": "train.weight_decay",
    "dropout": "train.dropout",
    "batch_size": "train.batch_size",
    "class_weights": "train.class_weights",
    "metric": "train.metric",
    "calibrate": "train.calibrate",
    "normalise": "data.normalise",
    "device": "run.device",
}

#: What Python keeps of an estimator beside the files of the engine.
PYTHON_FILE = "python.json"


class HarmoniaBase(Base):
    """What classifier and regressor share."""

    _model: _harmonia.Model
    n_features_in_: int

    def __init__(
        self,
        *,
        kind: Optional[str] = None,
        hops: Optional[int] = None,
        experts: Optional[int] = None,
        active: Optional[int] = None,
        bases: Optional[int] = None,
        hidden: Optional[Sequence[int]] = None,
        hop_weights: Optional[str] = None,
        monotone: Optional[Sequence[str]] = None,
        epochs: Optional[int] = None,
        patience: Optional[int] = None,
        learning_rate: Optional[float] = None,
        weight_decay: Optional[float] = None,
        dropout: Optional[float] = None,
        batch_size: Optional[int] = None,
        class_weights: Union[None, str, Sequence[str]] = None,
        metric: Optional[str] = None,
        calibrate: Optional[bool] = None,
        normalise: Optional[str] = None,
        preset: Optional[str] = None,
        recipe: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        validation_fraction: float = 0.2,
        device: str = "auto",
        n_jobs: Optional[int] = None,
        random_state: Any = 0,
    ) -> None:
        self.kind = kind
        self.hops = hops
        self.experts = experts
        self.active = active
        self.bases = bases
        self.hidden = hidden
        self.hop_weights = hop_weights
        self.monotone = monotone
        self.epochs = epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.batch_size = batch_size
        self.class_weights = class_weights
        self.metric = metric
        self.calibrate = calibrate
        self.normalise = normalise
        self.preset = preset
        self.recipe = recipe
        self.settings = settings
        self.validation_fraction = validation_fraction
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    # --- fitting --------------------------------------------------------------------------------------------------------------------

    def fit(
        self: Self,
        X: Any,
        y: Any = None,
        *,
        graph: Any = None,
        batch: Any = None,
        train: Any = None,
        validation: Any = None,
        test: Any = None,
        sample_weight: Any = None,
        callback: Union[None, Callback, Any] = None,
    ) -> Self:
        """Trains.

        ``X``: an array, a frame or a scipy matrix with a row for each node (or sample); or a ``torch_geometric`` Data, a
        :class:`harmonia.datasets.Dataset`, the name of a known dataset or the path of a store, which bring their own ``y``, graph
        and split. ``graph``: a scipy matrix, a networkx graph, an ``edge_index`` or a square array; without one the model is a plain
        additive model. ``batch``: the graph of each node, where graphs are predicted; ``y`` then has one entry for each graph.

        ``train``, ``validation``, ``test``: masks or numbers of units. Without ``train``, all labelled units that are in no other part;
        without ``validation``, ``validation_fraction`` of those, drawn by ``random_state``. Units whose label is NaN or None, or -1
        beside a class 0, have no label.

        ``callback``: called after each epoch with a line of metrics.jsonl as a dict, or an object with ``update`` such as a tqdm bar.
        What it raises ends the fit.
        """
        opened = open_dataset(X)
        seed = _targets.seed(self.random_state)
        if opened is not None:
            if any(part is not None for part in (y, graph, batch, train, validation, test, sample_weight)):
                raise ValueError("a dataset brings its own labels, graph and split: give X alone, or arrays")
            data, words = opened.data, self._settings(opened.data.nodes, seed, True)
            self._take_labels(data)
            names: Optional[list[str]] = None
        else:
            x, y, graph, parts = _inputs.of_pyg(X, y, graph, batch, (train, validation, test))
            batch = parts[3]
            data, names = self._dataset(x, y, graph, batch, parts[:3], sample_weight, seed)
            words = self._settings(data.nodes, seed, graph is not None)
        model = _harmonia.fit(data, words, preset=self.preset, recipe=self.recipe, listener=_words.listener(callback), epochs=_words.wants_epochs(callback))
        self._adopt(model, names)
        return self

    def _settings(self, rows: int, seed: int, has_graph: bool) -> list[str]:
        """What ``--set`` would be told."""
        del rows
        said = {key: getattr(self, name) for name, key in SETTINGS.items() if getattr(self, name) is not None}
        if not has_graph:
            # There is nowhere to walk to.
            said["model.hops"] = 1
        said["run.seed"] = seed
        said["run.threads"] = 0 if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs
        said.update(self.settings or {})
        return [f"{key}={_words.toml(value)}" for key, value in said.items()]

    def _dataset(
        self, x: Any, y: Any, graph: Any, batch: Any, parts: Sequence[Any], sample_weight: Any, seed: int
    ) -> tuple[_harmonia.Data, Optional[list[str]]]:
        table = _inputs.table(x)
        edges = _inputs.links(graph, table.rows)
        starts = None if batch is None else _inputs.graph_starts(batch, table.rows)
        count = table.rows if starts is None else len(starts) - 1
        labels, labelled, strata = self._labels(y, count)
        weights, counted = _targets.weights(sample_weight, count)
        split = self._split(labelled & counted, strata, parts, count, seed)
        data = _harmonia.Data.of_arrays(
            x=table.dense,
            sparse=table.sparse,
            names=table.names,
            columns=table.columns,
            graph=None if edges is None else (edges.starts, edges.indices, edges.weights),
            starts=starts,
            node_names=None if edges is None else edges.node_names,
            weights=weights,
            parts=split,
            **labels,
        )
        self._columns = table.cols
        return data, table.names

    def _split(
        self, labelled: NDArray[np.bool_], strata: Optional[NDArray[np.int64]], parts: Sequence[Any], count: int, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        none = np.zeros(0, dtype=np.int64)
        given = [None if part is None else _inputs.units(part, count, name) for part, name in zip(parts, ("train", "validation", "test"))]
        train, valid, test = given[0], given[1], none if given[2] is None else given[2]
        if train is None:
            taken = np.zeros(count, dtype=bool)
            taken[test] = True
            if valid is not None:
                taken[valid] = True
            train = np.flatnonzero(labelled & ~taken)
        train, test = train[labelled[train]], test[labelled[test]]
        if valid is None:
            if len(train) < 2:
                raise ValueError(
                    f"n_samples={len(train)}: expected at least 2 labelled samples, one to train on and one to validate with (1 sample is not enough)"
                )
            train, valid = _targets.hold_out(train, strata, self.validation_fraction, seed)
        return train.astype(np.int64), valid[labelled[valid]].astype(np.int64), test.astype(np.int64)

    def _labels(self, y: Any, count: int) -> tuple[dict[str, Any], NDArray[np.bool_], Optional[NDArray[np.int64]]]:
        raise NotImplementedError

    def _take_labels(self, data: _harmonia.Data) -> None:
        raise NotImplementedError

    def _adopt(self, model: _harmonia.Model, names: Optional[list[str]]) -> None:
        """A model that was trained or read."""
        self._model = model
        columns = self.__dict__.pop("_columns", None)
        self.n_features_in_ = len(model.own_feature_names) if columns is None else columns
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    # --- predictions ----------------------------------------------------------------------------------------------------------------

    def _fitted(self) -> _harmonia.Model:
        model = self.__dict__.get("_model")
        if model is None:
            raise not_fitted(self)
        return cast(_harmonia.Model, model)

    def _data(self, X: Any, graph: Any, batch: Any) -> Optional[_harmonia.Data]:
        """The data to look at: those of training (none), a dataset, or arrays with the columns of training."""
        model = self._fitted()
        if X is None:
            if graph is not None or batch is not None:
                raise ValueError("a graph without X: give both, or neither for the data of training")
            return None
        opened = open_dataset(X)
        if opened is not None:
            return opened.data
        x, _, graph, parts = _inputs.of_pyg(X, None, graph, batch, (None, None, None))
        self._check_columns(x)
        data, _ = _inputs.dataset_of(x, graph, parts[3], model.schema)
        return data

    def _check_columns(self, x: Any) -> None:
        names = getattr(self, "feature_names_in_", None)
        given = [c for c in x.columns] if _inputs.is_frame(x) else None
        if given is not None and not all(isinstance(name, str) for name in given):
            given = None
        name = type(self).__name__
        if names is None and given is not None:
            warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=3)
        elif names is not None and given is None:
            warnings.warn(f"X does not have valid feature names, but {name} was fitted with feature names", stacklevel=3)
        elif names is not None and given is not None and list(names) != given:
            raise ValueError(_targets.other_names(list(names), given))
        shape = getattr(x, "shape", None) or _inputs.to_numpy(x).shape
        if len(shape) == 2 and shape[1] != self.n_features_in_:
            raise ValueError(f"X has {shape[1]} features, but {name} is expecting {self.n_features_in_} features as input")

    def _logits(self, X: Any, graph: Any, batch: Any) -> NDArray[np.float32]:
        return self._fitted().logits(self._data(X, graph, batch))

    # --- what the model says --------------------------------------------------------------------------------------------------------

    def explain_local(
        self,
        units: Any,
        by: Union[str, Sequence[str]] = ("feature",),
        *,
        top: Optional[int] = 10,
        class_: Any = None,
        versus: Any = None,
        centre: bool = True,
        edges: bool = False,
        most_edges: int = 20_000,
        X: Any = None,
        graph: Any = None,
        batch: Any = None,
    ) -> Explanations:
        """Predictions as the sums they are.

        ``units``: nodes (or graphs) by number or name; ``by``: any of feature, node and hop; ``top``: terms to list, ``None`` for all;
        ``class_``: which class (the predicted one), ``versus``: against which; ``centre``: whether the mean response is taken off. Of
        the data of training, or of others.

        ``edges``: also what each edge does that the prediction can depend on, as ``.edges``: the change of the logit when that edge
        alone is dropped, as :meth:`intervene` has it. One by one: more than ``most_edges``, each way counted, are refused.
        """
        keys = [by] if isinstance(by, str) else list(by)
        wanted = [str(unit) for unit in ([units] if isinstance(units, (str, int, np.integer)) else list(units))]
        model, data = self._fitted(), self._data(X, graph, batch)
        score = {"class_": _words.word(class_), "versus": _words.word(versus)}
        found = json.loads(
            _harmonia.explain_local(model, wanted, keys, top=_terms(top), centre=centre, data=data, **score)
        )
        if not edges:
            return Explanations([Explanation(one, keys) for one in found])
        seen = json.loads(_harmonia.explain_edges(model, wanted, most_edges, data=data, **score))
        return Explanations([Explanation(one, keys, of, seen["both_ways"]) for one, of in zip(found, seen["edges"])])

    def explain_global(
        self, part: Optional[str] = None, *, top: Optional[int] = None, X: Any = None, graph: Any = None, batch: Any = None
    ) -> GlobalExplanation:
        """What the model does over many units: ``part`` is train, valid, test or all; without one, test where there is a test part."""
        data = self._data(X, graph, batch)
        model, most = self._fitted(), _terms(top)
        if part is not None or data is not None:
            return GlobalExplanation(json.loads(_harmonia.explain_global(model, part or "all", top=most, data=data)))
        scores = json.loads(model.summary or "{}").get("test", {})
        part = "test" if any(value is not None for value in scores.values()) else "all"
        return GlobalExplanation(json.loads(_harmonia.explain_global(model, part, top=most)))

    def shapes(self, name: Union[None, str, int] = None) -> Any:
        """The :class:`Shape` of a feature by name or number, or a list of all."""
        wanted = [] if name is None else [str(name)]
        found = [Shape(one) for one in json.loads(_harmonia.shapes(self._fitted(), wanted))["features"]]
        return found if name is None else found[0]

    def diagnose(self, *, epsilon: float = 0.01, X: Any = None, graph: Any = None, batch: Any = None) -> Diagnosis:
        """What the graph lets hop weights mean."""
        return Diagnosis(json.loads(_harmonia.diagnose(self._fitted(), epsilon=epsilon, data=self._data(X, graph, batch))))

    def intervene(
        self,
        node: Any = None,
        *,
        drop_edge: Any = (),
        mean_node: Any = (),
        set: Optional[Mapping[Any, Any]] = None,  # noqa: A002
        class_: Any = None,
        versus: Any = None,
        X: Any = None,
        graph: Any = None,
        batch: Any = None,
        unit: Any = None,
    ) -> Intervention:
        """The same prediction with something changed, exactly.

        ``drop_edge``: (a, b), or several; ``mean_node``: nodes that get the training mean; ``set``: feature to value, or (node,
        feature) to value, as the data would have it. ``unit`` is the graph, where graphs are predicted.
        """
        target = node if node is not None else unit
        if target is None:
            raise ValueError("intervene needs a node, or of a model of graphs a unit")
        edges = [drop_edge] if len(drop_edge) == 2 and not isinstance(drop_edge[0], (tuple, list)) else list(drop_edge)
        means = [mean_node] if isinstance(mean_node, (str, int, np.integer)) else list(mean_node)
        values: list[tuple[Optional[str], str, str]] = []
        for key, value in (set or {}).items():
            place, feature = key if isinstance(key, tuple) else (None, key)
            values.append((_words.word(place), str(feature), _words.cell(value)))
        text = _harmonia.intervene(
            self._fitted(),
            str(target),
            dropped=[(str(a), str(b)) for a, b in edges],
            means=[str(one) for one in means],
            set=values,
            class_=_words.word(class_),
            versus=_words.word(versus),
            data=self._data(X, graph, batch),
        )
        return Intervention(json.loads(text))

    @property
    def hop_weights_(self) -> NDArray[np.float64]:
        """theta, walk lengths x columns of X."""
        return self._fitted().hop_weights()

    @property
    def history_(self) -> list[dict[str, Any]]:
        """Every epoch."""
        return [json.loads(line) for line in self._fitted().history]

    @property
    def summary_(self) -> dict[str, Any]:
        """Scores, epochs, warnings: ``summary.json`` of the command line."""
        return cast("dict[str, Any]", json.loads(self._fitted().summary or "{}"))

    @property
    def settings_(self) -> str:
        """Every setting of the fit, as TOML: a file for ``harmonia-train --config``."""
        return self._fitted().config

    def report(
        self, path: Union[str, os.PathLike[str]], *, nodes: Iterable[int] = (), diagnose: bool = True, X: Any = None, graph: Any = None, batch: Any = None
    ) -> None:
        """Writes the page about the model: one file that needs no network."""
        self._fitted().report(path, units=[int(node) for node in nodes], diagnose=diagnose, data=self._data(X, graph, batch))

    # --- keeping --------------------------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]], *, data: bool = False) -> None:
        """Writes a run directory, which :func:`load` and the command line open. ``data``: with the data of training in it."""
        self._fitted().save(path, data=data)
        kept = {"estimator": type(self).__name__, "params": _words.plain(self.get_params(deep=False)), **self._kept()}
        (Path(path) / PYTHON_FILE).write_text(json.dumps(kept, indent=1))

    def _kept(self) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)
        return {"feature_names_in": None if names is None else list(names), "columns": self.n_features_in_}

    def _restore(self, kept: dict[str, Any]) -> None:
        if kept.get("columns") is not None:
            self._columns = int(kept["columns"])
        self._adopt(self._fitted(), kept.get("feature_names_in"))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "_model" in state:
            state["_model"] = state["_model"].files()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_model" in state:
            self._model = _harmonia.Model.from_files(state["_model"])

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        tags = Tags(estimator_type=None, target_tags=TargetTags(required=True))
        tags.input_tags.sparse = True
        # A gap has a response of its own.
        tags.input_tags.allow_nan = True
        return tags


def _terms(top: Optional[int]) -> int:
    """How many terms are listed, as the engine counts them: 0 are all."""
    if top is None:
        return 0
    if top < 1:
        raise ValueError(f"top is {top}: expected the number of terms to list, at least 1, or None for all")
    return int(top)
