# %% [markdown]
# # Molecules
# SMILES become graphs of atoms; the model predicts molecules and says which atoms speak for it.

# %%
from pathlib import Path

from harmonia import HarmoniaClassifier, datasets

alcohols = ["CCO", "CCCO", "CC(C)O", "OCCO", "OC1CCCCC1", "CCCCO", "CC(O)CO", "OCC=C", "CCC(O)C", "OCc1ccccc1"]
others = ["CC", "CCC", "CC(C)C", "CCOCC", "C1CCCCC1", "CCCC", "COC", "CC=C", "CCCCC", "Cc1ccccc1"]
rows = [f"{smiles},{int(smiles in alcohols)}" for pair in zip(alcohols, others) for smiles in pair]
Path("molecules.csv").write_text("smiles,label\n" + "\n".join(rows * 3) + "\n")
data = datasets.convert("molecules.csv", "molecules", format="smiles")
print(data, data.feature_names[:5])

# %%
model = HarmoniaClassifier(hops=3, epochs=150, settings={"data.split": "fractions:60/20/20"}).fit(data)
right = (model.predict() == model.classes_[data.y]).mean()
print("right", right)
assert right > 0.9

# %% Which atoms speak for the first molecule.
print(model.explain_local([0], by=("node", "feature"), top=5).to_pandas())
