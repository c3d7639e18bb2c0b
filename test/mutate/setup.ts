/** Before each test file of a mutated part: the first counterexample of a property is enough, the smallest takes long. */
import fc from 'fast-check'

fc.configureGlobal({ endOnFailure: true })
