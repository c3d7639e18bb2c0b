/** Drawn states of one record, with many ties. */
import fc from 'fast-check'
import type { Envelope } from '../../src/core/envelope.ts'
import { at } from '../support/envelopes.ts'

/** Few distinct times and hashes, so that ties are frequent; times a microsecond apart. */
export const envelope: fc.Arbitrary<Envelope> = fc
  .record({
    version: fc.nat(2),
    observed: fc.nat(2),
    hash: fc.option(fc.constantFrom('00', '7f', '80', 'ff', 'ff00').map((start) => start.padEnd(32, '0'))),
  })
  .map(({ version, observed, hash }) => ({
    teamId: 1,
    stream: 'patients',
    id: 'a',
    version: at(version),
    observedAt: at(observed),
    updatedAt: null,
    origin: 'test',
    content: hash === null ? null : { payload: {}, text: '{}', asReceived: null, hash, problems: [] },
  }))
