/**
 * Before each test file of a mutated part: the first counterexample of a property is enough, the smallest takes long;
 * and so does trying each property thousands of times for each mutant.
 */
import fc from 'fast-check'

fc.configureGlobal({ endOnFailure: true, interruptAfterTimeLimit: 500 })
