"""Generated credit applications: 23 columns and the outcomes `ok`, `loss_rate` and `grade`. No real data.

The tables hold what their CSV files hold: every cell is a text, and a missing value is the empty text. What the
models are given is read from these texts, so a reader of the files starts from the same values.
"""
import csv

import numpy as np
import pandas as pd

NUMBERS = ["amount", "term", "income", "monthly_payment", "pt_income"]
CATEGORIES = ["source_type", "remittance_type", "occupation_type", "marital_status",
              "credit_product_id", "verificator_id", "partner_id"]
BOOLEANS = ["pension_contributions", "criminal_record", "add_info_fraud", "add_info_inadequate",
            "add_info_poor_appearance", "add_income_pension", "add_info_call_before_visit", "had_arrears",
            "had_credits_before", "has_active_credit", "banned"]
COLUMNS = ["amount", "source_type", "remittance_type", "term", "income", "occupation_type", "pension_contributions",
           "criminal_record", "marital_status", "add_info_fraud", "add_info_inadequate", "add_info_poor_appearance",
           "credit_product_id", "verificator_id", "partner_id", "add_income_pension", "add_info_call_before_visit",
           "had_arrears", "had_credits_before", "has_active_credit", "monthly_payment", "pt_income", "banned"]
OUTCOMES = ["ok", "loss_rate", "grade"]

# category: (share, effect on the log-odds of repaying)
LEVELS = {
    "source_type": {"ONLINE": (.40, 0), "BRANCH": (.25, .35), "AGENT": (.15, -.35), "CALL_CENTER": (.12, -.1),
                    "PARTNER_SITE": (.08, -.2)},
    "remittance_type": {"CARD": (.45, 0), "ACCOUNT": (.30, .25), "CASH": (.18, -.45), "WALLET": (.07, -.25)},
    "occupation_type": {"EMPLOYEE": (.48, .1), "SELF_EMPLOYED": (.14, -.15), "CIVIL_SERVANT": (.12, .5),
                        "PENSIONER": (.10, .3), "STUDENT": (.05, -.4), "UNEMPLOYED": (.04, -1.1),
                        "ENTREPRENEUR": (.07, -.2)},
    "marital_status": {"MARRIED": (.45, .2), "SINGLE": (.30, -.1), "DIVORCED": (.13, -.25), "WIDOWED": (.05, .1),
                       "CIVIL_UNION": (.07, 0)},
}
LOG_INCOME = {"EMPLOYEE": 10.4, "SELF_EMPLOYED": 10.3, "CIVIL_SERVANT": 10.35, "PENSIONER": 9.7, "STUDENT": 9.2,
              "UNEMPLOYED": 8.6, "ENTREPRENEUR": 10.8}
PRODUCTS = ["0101", "0102", "0105", "0110", "0201", "0202", "0230", "0310"]  # leading zeros: never numbers
VERIFICATORS = ["%03d" % i for i in range(1, 26)]
PARTNERS = ["P%04d" % i for i in range(1, 31)]
MISSING_SHARE = {"income": .07, "pt_income": .10, "term": .01, "occupation_type": .05, "marital_status": .03,
                 "verificator_id": .04, "had_arrears": .05, "pension_contributions": .03}
# Half a million needs a second signature, so some ask for a cent less. float32 cannot tell the two apart: this is what
# the model trained on float64 numbers stumbles over.
LIMIT, BELOW_LIMIT = 500000.0, 499999.99

UNSEEN = {
    "source_type": ["TELEGRAM_BOT", "online", "Branch"],
    "remittance_type": ["CRYPTO", "Card", " CASH"],
    "occupation_type": ['FREELANCE, "OTHER"', "ПЕНСІОНЕР", "FARMER\nSEASONAL", "employee"],
    "marital_status": ["married", "é́trange", "婚"],
    "credit_product_id": ["999999999999999999999", "101", "0101 "],
    "verificator_id": ["7", "0x07", "'001'"],
    "partner_id": ["P9999", "p0001", '"P0001"'],
}
EXTREME = {"amount": ["1000000000", "0", "0.01"], "term": ["100000", "1", "0"], "income": ["0", "1e12", "-5000.5"],
           "monthly_payment": ["-1", "1E+10", "0.005"], "pt_income": ["0.1", "1e-20", "250000000.75"]}


def text_of_number(v):
    """The shortest text of the number, without a trailing .0."""
    return "" if np.isnan(v) else str(int(v)) if v == int(v) else repr(float(v))


def applications(n, seed):
    """`n` applications with their outcomes; values are missing as in real portfolios."""
    r = np.random.default_rng(seed)
    cat = {c: r.choice(list(lv), n, p=[s for s, _ in lv.values()]) for c, lv in LEVELS.items()}
    occupation = cat["occupation_type"]
    income = np.round(np.exp(r.normal([LOG_INCOME[o] for o in occupation], .45)), 2)
    amount = np.clip(np.round(np.exp(r.normal(np.log(income) + .35, .7)) / 100) * 100, 1000, 400000)
    large = r.random(n)
    amount = np.where(large < .03, LIMIT, np.where(large < .06, BELOW_LIMIT, amount))
    term = r.choice([3., 6, 9, 12, 18, 24, 36, 48, 60], n, p=[.05, .12, .08, .25, .14, .18, .12, .04, .02])
    monthly = np.round(amount * (1 + r.uniform(.12, .45, n) * term / 12) / term, 2)
    pt_income = np.where(r.random(n) < .3, np.round(np.exp(r.normal(8.6, .7, n)), 2), 0)

    def flag(p):
        return r.random(n) < p

    b = {"pension_contributions": flag(np.where(np.isin(occupation, ["EMPLOYEE", "CIVIL_SERVANT"]), .85, .3)),
         "criminal_record": flag(.04), "add_info_fraud": flag(.03), "add_info_inadequate": flag(.04),
         "add_info_poor_appearance": flag(.05), "add_income_pension": flag(np.where(occupation == "PENSIONER", .9, .08)),
         "add_info_call_before_visit": flag(.4), "had_credits_before": flag(.62), "banned": flag(.02)}
    b["had_arrears"] = b["had_credits_before"] & flag(.25)
    b["has_active_credit"] = flag(np.where(b["had_credits_before"], .45, .12))
    effects = np.random.default_rng(977)  # of the identifiers: the same for every table
    for c, values, p, spread in (("credit_product_id", PRODUCTS, None, .3), ("verificator_id", VERIFICATORS, .12, .2),
                                 ("partner_id", PARTNERS, .1, .3)):
        k = len(values)
        i = r.integers(0, k, n) if p is None else np.minimum(r.geometric(p, n) - 1, k - 1)
        cat[c] = np.array(values)[i]
        b[c] = effects.normal(0, spread, k)[i]  # its effect, added below
    z = 2.2 + sum(np.array([LEVELS[c][v][1] for v in cat[c]]) for c in LEVELS)
    z += b.pop("credit_product_id") + b.pop("verificator_id") + b.pop("partner_id")
    z += -1.1 * np.clip(np.log(monthly / (income + pt_income) / .15), -2, 2.5) + .35 * (np.log(income) - 10.3)
    z += -.012 * (term - 18) + np.where(amount == LIMIT, 1.8, 0) + np.where(amount == BELOW_LIMIT, -.6, 0)
    for c, e in dict(pension_contributions=.35, criminal_record=-1.2, add_info_fraud=-2.2, add_info_inadequate=-.9,
                     add_info_poor_appearance=-.5, add_income_pension=.2, add_info_call_before_visit=.05,
                     had_arrears=-1.3, had_credits_before=.5, has_active_credit=-.3, banned=-3).items():
        z += e * b[c]
    z += -.7 * (b["had_arrears"] & b["has_active_credit"])
    ok = r.random(n) < 1 / (1 + np.exp(-z))
    loss_rate = np.round(np.where(ok, 0, np.clip(r.beta(2.5, 2.5, n), .02, .98)), 4)
    grade = np.where(z > 2.6, "A", np.where(z > 1.4, "B", "C"))
    grade = np.where(r.random(n) < .12, np.array(["A", "B", "C"])[r.integers(0, 3, n)], grade)

    rows = pd.DataFrame(index=range(n))
    numbers = dict(amount=amount, term=term, income=income, monthly_payment=monthly, pt_income=pt_income)
    for c in COLUMNS:
        if c in NUMBERS:
            rows[c] = [text_of_number(v) for v in numbers[c]]
        elif c in CATEGORIES:
            rows[c] = [str(v) for v in cat[c]]
        else:
            rows[c] = ["true" if v else "false" for v in b[c]]
        rows.loc[r.random(n) < MISSING_SHARE.get(c, 0), c] = ""
    rows["ok"] = ["true" if v else "false" for v in ok]
    rows["loss_rate"] = [text_of_number(v) for v in loss_rate]
    rows["grade"] = grade
    return rows


def soiled(rows, seed):
    """A copy with unseen and wrong-case categories, extreme valid numbers, and values missing in every column."""
    r = np.random.default_rng(seed)
    rows, n = rows.copy(), len(rows)
    for table, share in ((EXTREME, .02), (UNSEEN, .03)):
        for c, values in table.items():
            for v in values:
                rows.loc[r.choice(n, max(2, int(n * share)), replace=False), c] = v
    for c in COLUMNS:
        rows.loc[r.random(n) < .03, c] = ""
    rows.loc[n - 1, COLUMNS] = ""  # nothing known at all
    return rows


def write(rows, path):
    rows.to_csv(path, index=False, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)


def read(path):
    """Every cell as its text; nothing is taken for a missing value but the empty text."""
    return pd.read_csv(path, dtype=str, keep_default_na=False).astype(object)
