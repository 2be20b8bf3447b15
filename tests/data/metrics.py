"""Writes metrics.json: random answers of a six-type classifier and what scikit-learn and SciPy say of them.

Run as `python tests/data/metrics.py` with scikit-learn 1.9 and SciPy 1.17 or later.
"""

import json
import pathlib

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import (accuracy_score, average_precision_score, f1_score, log_loss,
                             precision_recall_fscore_support)

rng = np.random.default_rng(20)
n, types = 240, 6
truth = rng.choice(types, n, p=[0.12, 0.3, 0.28, 0.2, 0.0, 0.1])
logits = rng.normal(size=(n, types)) + 1.3 * np.eye(types)[truth]
logits[:, 3] -= 9  # a type that is present but never predicted
probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
probs = np.round(probs, 6)
probs /= probs.sum(1, keepdims=True)
predicted = probs.argmax(1)
tied = np.round(probs[:, 0], 1)  # many equal scores
precision, recall, f1, support = precision_recall_fscore_support(
    truth, predicted, labels=range(types), zero_division=0)
confidence, right = probs.max(1), predicted == truth
bins = np.minimum((confidence * 10).astype(int), 9)
ece = sum(abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean()
          for b in range(10) if (bins == b).any())
out = {
    "truth": truth.tolist(),
    "probs": probs.tolist(),
    "accuracy": accuracy_score(truth, predicted),
    "precision": precision.tolist(),
    "recall": recall.tolist(),
    "f1": f1.tolist(),
    "support": support.tolist(),
    "macro_f1": f1_score(truth, predicted, labels=[0, 1, 2, 3, 5], average="macro", zero_division=0),
    "average_precision": average_precision_score(truth == 0, probs[:, 0]),
    "average_precision_tied": average_precision_score(truth == 0, tied),
    "tied": tied.tolist(),
    "log_loss": log_loss(truth, probs, labels=range(types)),
    "ece": float(ece),
    "mcnemar": [[b, c, binomtest(min(b, c), b + c).pvalue] for b, c in [(3, 12), (40, 55), (7, 7), (0, 5), (900, 1100)]],
}
pathlib.Path(__file__).with_name("metrics.json").write_text(json.dumps(out) + "\n")
