// Sums of millions of numbers whose last digits are right: what is rounded off is added up beside them.

/** Neumaier's compensated summation (ZAMM 54, 1974). */
export class ExactSum {
  #sum = 0;
  #rest = 0;

  add(x: number): void {
    const sum = this.#sum + x;
    this.#rest += Math.abs(this.#sum) >= Math.abs(x) ? this.#sum - sum + x : x - sum + this.#sum;
    this.#sum = sum;
  }

  get value(): number {
    return this.#sum + this.#rest;
  }
}
