/** What the processes of a team agree on about its limit. */
import { expect, test } from 'vitest'
import { emptyDivision, withModel } from '../../../src/api/budget/division.ts'

test('the learned limit is kept while a process has another one configured, for the processes that stay when it leaves', () => {
  const limit = (count: number) =>
    ({ ...{ count, window: 60_000_000, margin: 0 } }) as Parameters<typeof withModel>[1]
  const learned = withModel(emptyDivision(), limit(50), false, 0)
  const configured = withModel(learned, limit(20), true, 0)
  expect([configured.model!.count, configured.isFixed, configured.learned!.count]).toEqual([20, true, 50])
  const again = withModel(configured, configured.learned!, false, 0)
  expect([again.model!.count, again.isFixed, again.learned!.count]).toEqual([50, false, 50])
})
