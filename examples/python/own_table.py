# %% [markdown]
# # A table of your own
# Columns of a DataFrame as they are: numbers with gaps, categories, dates. Without a graph the model is a plain additive model; with
# one, neighbours count too.

# %%
import numpy as np
import pandas as pd

from harmonia import HarmoniaClassifier

rng = np.random.default_rng(0)
people = 400
friends = rng.integers(0, people, size=(2, 800))
age = rng.normal(45, 14, size=people).round()
plan = rng.choice(["free", "pro", "team"], size=people)
pro = np.bincount(friends[0], plan[friends[1]] == "pro", people) / np.maximum(np.bincount(friends[0], minlength=people), 1)
leaves = (age < 40) / 2 + pro + rng.normal(0, 0.1, size=people) > 0.6
table = pd.DataFrame({"age": np.where(rng.random(people) < 0.1, np.nan, age), "plan": plan})

# %% Alone, and with friends: a person reads from those it names.
test = np.arange(300, 400)
alone = HarmoniaClassifier(epochs=200).fit(table, leaves, test=test)
together = HarmoniaClassifier(epochs=200, hops=2).fit(table, leaves, graph=friends, test=test)
print("alone", alone.summary_["test"]["accuracy"], "with friends", together.summary_["test"]["accuracy"])
assert together.summary_["test"]["accuracy"] > alone.summary_["test"]["accuracy"]

# %% What speaks for person 7, and what would change with another plan.
print(together.explain_local([7], by=("feature", "hop")).to_pandas())
print(together.intervene(7, set={"age": 60}))

# %% Curves are exact.
print(together.shapes("age").knots[:5], together.shapes("plan").values)
together.save("customers")
