"""The page that a review board keeps: what a private model promises, in words, pictures and numbers.

A hospital predicts who comes back within 30 days. Patients have several visits each, so patients are protected. The
report is written as HTML for people and as JSON for programs; a second one is about the ledger of the whole project.
Give a folder to keep the files in.
"""

import sys
import tempfile
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd

from dpsk import Categories, DPTabularClassifier, Number, PrivacyLedger, PrivacyReport, private_evaluation

rng, n, patients = np.random.default_rng(0), 12_000, 4_000
visits = pd.DataFrame(
    {
        "age": rng.integers(18, 100, n),
        "ward": rng.choice(["surgery", "cardiology", "other"], n),
        "days": rng.gamma(2.0, 3.0, n),
        "patient": rng.integers(0, patients, n),
    }
)
risk = 0.05 * (visits["age"] - 70) + 0.8 * (visits["ward"] == "cardiology") + 0.1 * visits["days"]
back = np.where(risk + rng.logistic(size=n) > 1, "back", "stayed away")
new = (visits["patient"] % 4 == 0).to_numpy()  # a quarter of the patients is held out, with all visits

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
folder.mkdir(exist_ok=True)
parts = ["training", "held-out"]
ledger = PrivacyLedger(folder / "visits.db", epsilon=2.0, delta=1e-6, unit="patient", disjoint=parts)
columns = {"age": Number(18, 100), "ward": Categories(["surgery", "cardiology", "other"]), "days": Number(0, 60)}
model = DPTabularClassifier(2.0, 1e-6, columns=columns, group_column="patient", ledger=ledger.on("training"))
model.fit(visits[~new], back[~new])
evaluation = private_evaluation(model, visits[new], back[new], epsilon=2.0, ledger=ledger.on("held-out"))

report = PrivacyReport(
    model,
    title="Who comes back to hospital within 30 days",
    author="R. Writer",
    contact="privacy@example.org",
    data_description="Visits to one hospital in one year. Made up for this example.",
    intended_use="Planning of home visits. Not for decisions about insurance.",
    evaluation=evaluation,
)
for suffix in ("html", "md", "json"):
    report.save(folder / f"model.{suffix}")
PrivacyReport(ledger, title="Everything that was done with the visits").save(folder / "ledger.html")

(main,) = report.to_dict()["guarantees"]
bet = next(belief for belief in main["attacker"] if belief["before"] == 0.5)
print(f"{report}\nWho is 50 % sure that a patient is in the data becomes at most {ceil(100 * bet['mostly'])} % sure,")
print(f"in all but 1 of 1,000 cases. The pages are in {folder}.")
