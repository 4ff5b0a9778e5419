# %% [markdown]
# # Cora, with explanations
# Fit, explain a paper by words, neighbours and walk lengths, ask what the graph lets hop weights mean, write the report.

# %%
from harmonia import HarmoniaClassifier, datasets

data = datasets.load("cora")
model = HarmoniaClassifier(epochs=150, learning_rate=0.005).fit(data)  # the tuned settings take longer, for 82 %
print(data, "test accuracy", model.summary_["test"]["accuracy"])
assert model.summary_["test"]["accuracy"] > 0.7

# %% One prediction as the sum it is.
found = model.explain_local([42], by=("feature", "node", "hop"))[0]
print(found.to_pandas())
assert found.residual < 1e-3

# %% The same without a citation.
neighbour = int(data.edge_index[1][data.edge_index[0] == 42][0])
print(model.intervene(42, drop_edge=(42, neighbour)))

# %% Over all test papers, and what walks can be told apart.
print(model.explain_global(top=5).to_pandas())
print(model.diagnose())
model.report("cora.html", nodes=[42])
