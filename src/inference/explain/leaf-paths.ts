// The paths of a tree: every leaf with the branches above it, and the share of the training rows that went each way.
import type { Ensemble } from '../trees/ensemble.ts';
import type { Branch, Tree } from '../trees/grow.ts';

interface Turn {
  branch: Branch;
  yes: boolean;
}

/** Every leaf with the branches above it, leaves in order. */
export function pathsOf(t: Tree, leaf: (leaf: number, path: readonly Turn[]) => void): void {
  const path: Turn[] = [];
  const walk = (at: number): void => {
    if (at < 0) {
      leaf(~at, path);
      return;
    }
    const branch = t.branches[at]!;
    path.push({ branch, yes: true });
    walk(branch.yes);
    path[path.length - 1] = { branch, yes: false };
    walk(branch.no);
    path.pop();
  };
  walk(t.branches.length > 0 ? 0 : ~0);
}

/** The share of the training rows at a branch that went this way; 0 where nobody did. */
export function shareOf(e: Ensemble, b: Branch, yes: boolean, cover: (node: number) => number): number {
  const went = b.nodes.reduce((n, node) => n + cover(e.onTrue[node]!), 0);
  const stayed = cover(e.onFalse[b.nodes.at(-1)!]!);
  const total = went + stayed;
  return total > 0 ? (yes ? went : stayed) / total : 0;
}
