"""Static HTML for notebooks: tables with bars, no script, nothing loaded. What comes from data is text, never markup."""

from __future__ import annotations

from html import escape
from typing import Any, Iterable, Sequence

#: Rows of a table in a notebook; objects and ``to_pandas`` have all.
SHOWN = 20

_STYLE = (
    "<style>.harmonia td,.harmonia th{padding:1px 8px;text-align:left}.harmonia td.n{text-align:right;"
    "font-variant-numeric:tabular-nums}.harmonia .b{display:inline-block;height:.7em}</style>"
)


def page(body: str) -> str:
    """What a notebook shows."""
    return f'<div class="harmonia">{_STYLE}{body}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th>{escape(word)}</th>" for word in head)
    return f"<table><tr>{cells}</tr>{''.join('<tr>' + ''.join(row) + '</tr>' for row in rows)}</table>"


def _text(value: Any) -> str:
    return f"<td>{escape(str(value))}</td>"


def _number(value: float) -> str:
    return f'<td class="n">{value:.4g}</td>'


def _bar(value: float, largest: float) -> str:
    width = 0.0 if largest == 0 else 8.0 * abs(value) / largest
    colour = "#2f6fb3" if value >= 0 else "#c2452d"
    return f'<td><span class="b" style="width:{width:.2f}em;background:{colour}"></span></td>'


def local(data: dict[str, Any], by: Sequence[str]) -> str:
    """One prediction."""
    terms = data["contributions"]
    largest = max((abs(term["value"]) for term in terms), default=0.0)
    keys = [key for key in (terms[0] if terms else {}) if key not in ("value", "node_id", "feature_index")]
    rows = [
        [_text("" if term.get(key) is None else term[key]) for key in keys] + [_number(term["value"]), _bar(term["value"], largest)]
        for term in terms[:SHOWN]
    ]
    hidden = sum(term["value"] for term in terms[SHOWN:]) + data["rest"]
    more = max(len(terms) - SHOWN, 0) + data["rest_terms"]
    title = f"<p><b>{escape(data['level'])} {data['target']}</b>: predicted {escape(str(data['predicted']))}; logit of {escape(str(data['class']))} "
    title += f"{data['logit']:.4f} = intercept {data['intercept']:.4f} + terms; rest of {more}: {hidden:.4f}; residual {data['residual']:.1e}</p>"
    return title + _table([*keys, "adds", ""], rows)


def overall(data: dict[str, Any]) -> str:
    """Importances."""
    features = data["features"]
    largest = max((feature["importance"] for feature in features), default=0.0)
    rows = [[_text(f["feature"]), _number(f["importance"]), _bar(f["importance"], largest)] for f in features[:SHOWN]]
    title = f"<p><b>{escape(str(data['dataset']))}</b>: mean |contribution| over {data['units']} units ({escape(data['split'])}); "
    title += f"{data['features_total']} features</p>"
    warning = f"<p>warning: {escape(data['hop_warning'])}</p>" if data.get("hop_warning") else ""
    return title + _table(["feature", "importance", ""], rows) + warning


def shape(data: dict[str, Any]) -> str:
    """Knots as a small picture, or values as bars."""
    name = escape(str(data["feature"]))
    if data.get("values"):
        effects = [(value["value"], next(iter(value["adds_by_class"].values()))) for value in data["values"]]
        largest = max((abs(effect) for _, effect in effects), default=0.0)
        return f"<p><b>{name}</b></p>" + _table(["value", "adds", ""], [[_text(v), _number(e), _bar(e, largest)] for v, e in effects[:SHOWN]])
    knots = data["knots"]
    low, high = data.get("range") or (knots[0][0], knots[-1][0])
    points = [knot for knot in knots if low <= knot[0] <= high] or knots
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    wide, tall = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    line = " ".join(f"{300 * (x - min(xs)) / wide:.1f},{100 - 100 * (y - min(ys)) / tall:.1f}" for x, y in points)
    svg = f'<svg width="310" height="110" viewBox="-5 -5 310 110"><polyline points="{line}" fill="none" stroke="#2f6fb3"/></svg>'
    return f"<p><b>{name}</b>: {len(knots)} knots, x from {low:.4g} to {high:.4g}, f from {min(ys):.4g} to {max(ys):.4g}</p>{svg}"


def change(data: dict[str, Any]) -> str:
    """Before and after."""
    terms = data["contributions"]
    largest = max((abs(term["value"]) for term in terms), default=0.0)
    rows = [[_text(t["feature"]), _number(t["value"]), _bar(t["value"], largest)] for t in terms[:SHOWN]]
    title = f"<p><b>{escape(data['level'])} {data['target']}</b>: logit of {escape(str(data['class']))} {data['before']:.4f} &rarr; {data['after']:.4f}</p>"
    return title + _table(["feature", "adds to the change", ""], rows)


def nested(data: Any, depth: int = 0) -> str:
    """Keys and values; long lists by their length."""
    if isinstance(data, dict) and depth < 3:
        return _table(["", ""], [[_text(key), f"<td>{nested(value, depth + 1)}</td>"] for key, value in data.items()])
    if isinstance(data, list) and len(data) > 8:
        return f"{len(data)} values"
    return escape(str(data))
