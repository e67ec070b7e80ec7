// The synthetic population of the generator: levels of columns, their shares, and their effects on repayment. No real
// data is used.

export interface Level {
  name: string;
  share: number;
  /** Effect on the log-odds of repayment. */
  effect: number;
}

const level = (name: string, share: number, effect: number): Level => ({ name, share, effect });

export const SOURCE = [
  level('ONLINE', 0.4, 0),
  level('BRANCH', 0.25, 0.35),
  level('AGENT', 0.15, -0.35),
  level('CALL_CENTER', 0.12, -0.1),
  level('PARTNER_SITE', 0.08, -0.2),
];
export const REMITTANCE = [
  level('CARD', 0.45, 0),
  level('ACCOUNT', 0.3, 0.25),
  level('CASH', 0.18, -0.45),
  level('WALLET', 0.07, -0.25),
];
/** `income`: mean logarithm of the monthly income in this occupation. */
export const OCCUPATION: (Level & { income: number })[] = [
  { ...level('EMPLOYEE', 0.48, 0.1), income: 10.4 },
  { ...level('SELF_EMPLOYED', 0.14, -0.15), income: 10.3 },
  { ...level('CIVIL_SERVANT', 0.12, 0.5), income: 10.35 },
  { ...level('PENSIONER', 0.1, 0.3), income: 9.7 },
  { ...level('STUDENT', 0.05, -0.4), income: 9.2 },
  { ...level('UNEMPLOYED', 0.04, -1.1), income: 8.6 },
  { ...level('ENTREPRENEUR', 0.07, -0.2), income: 10.8 },
];
export const MARITAL = [
  level('MARRIED', 0.45, 0.2),
  level('SINGLE', 0.3, -0.1),
  level('DIVORCED', 0.13, -0.25),
  level('WIDOWED', 0.05, 0.1),
  level('CIVIL_UNION', 0.07, 0),
];
export const TERM = [3, 6, 9, 12, 18, 24, 36, 48, 60].map((months, i) => ({
  months,
  share: [0.05, 0.12, 0.08, 0.25, 0.14, 0.18, 0.12, 0.04, 0.02][i]!,
}));

/** Ids with leading zeros. The effects of ids are pseudo-random but fixed. */
const ids = (names: string[], spread: number): Level[] =>
  names.map((name, i) => level(name, 1 / names.length, spread * Math.sin(12.9898 * (i + 1) + names.length)));
const numbered = (n: number, digits: number, prefix = ''): string[] =>
  Array.from({ length: n }, (_, i) => prefix + String(i + 1).padStart(digits, '0'));

export const PRODUCTS = ids(['0101', '0102', '0105', '0110', '0201', '0202', '0230', '0310'], 0.4);
export const VERIFICATORS = ids(numbered(25, 3), 0.28);
export const PARTNERS = ids(numbered(30, 4, 'P'), 0.42);

/** How a portfolio is generated: like the training data, or drifted. */
export interface Tendency {
  /** Cumulative shares of SOURCE. */
  source: readonly number[];
  /** Factor on all incomes. Requested amounts stay unchanged. */
  income: number;
  /**
   * Shares of applications without an occupation (`noOccupation`) and with an unseen category (`unseen`). With
   * `unseenIn`, only this column has unseen categories.
   */
  noOccupation: number;
  unseen: number;
  unseenIn?: keyof typeof UNSEEN_CATEGORIES;
}

/**
 * Values that do not occur in training samples: other spellings, another script, delimiters, quotes and a line break.
 */
export const UNSEEN_CATEGORIES = {
  source_type: ['TELEGRAM_BOT'],
  occupation_type: ['FREELANCE, "OTHER"', 'ПЕНСІОНЕР', 'FREELANCE\nOTHER'],
  marital_status: ['married'],
  verificator_id: ['7'],
  partner_id: ['P9999'],
};

export const cumulative = (levels: readonly { share: number }[]): number[] => {
  let sum = 0;
  return levels.map((l) => {
    sum += l.share;
    return sum;
  });
};

export const STABLE: Tendency = { source: cumulative(SOURCE), income: 1, noOccupation: 0.05, unseen: 0.005 };
/**
 * A drifted portfolio. Applications shift from branches and the web to agents, partners and an unknown source, and
 * incomes fall.
 */
export const DRIFTED: Tendency = {
  source: cumulative([0.18, 0.1, 0.4, 0.12, 0.2].map((share) => ({ share }))),
  income: 0.6,
  noOccupation: 0.3,
  unseen: 0.08,
  unseenIn: 'source_type',
};
