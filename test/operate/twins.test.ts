/**
 * Law 10, byte by byte: two teams whose records, events, forms, questions, exports and dead letters have the same ids.
 * An action for one of them leaves every row of the other, in every table and view, unchanged.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { awayFromTheHour } from '../support/hour.ts'
import { rowsOfTeam, type TeamRows, tablesOfNoTeam } from '../support/team-rows.ts'
import { openTwins, type Twins, troubleTwins } from '../support/twins.ts'
import { asRecorded } from './as-recorded.ts'
import { changesApart } from './changes-apart.ts'
import { readsApart } from './reads-apart.ts'

let twins: Twins

beforeAll(async () => {
  // The recordings count by hour and day.
  await awayFromTheHour()
  twins = await openTwins()
  await troubleTwins(twins)
})

afterAll(async () => {
  await twins[Symbol.asyncDispose]()
})

it('every table and view with a team has rows of both', async () => {
  const [north, south] = [twins.north, twins.south].map(({ teamId }) => rowsOfTeam(twins.url, teamId))
  const empty = async (rows: Promise<TeamRows>) =>
    [...(await rows)].flatMap(([name, lines]) => (lines.length === 0 ? [name] : []))
  // Each form and each export has a view of its team, one called form where it has no name; the runs so far were of both
  // teams, and none was removed. Researchers see nothing of groups of fewer than eleven patients, which is all that these teams have.
  const own =
    /^intake(_analytics|_exports|_forms)?\.(form|export)(_(intake|north|south|g)|(_2)?$)|^intake_ops\.(runs|removed_teams)$|^intake_safe_harbor\.|^intake_raw\.safe_/
  for (const rows of [north!, south!])
    expect((await empty(rows)).filter((name) => !own.test(name))).toEqual([])
})

it('every table without a team belongs to the warehouse, for a stated reason', async () => {
  expect(await tablesOfNoTeam(twins.url)).toEqual([
    // Keys, one each: of pseudonyms, of the hashes of erased patients, and of receipts.
    'intake_ops.analytics_key',
    // Actions of operators, each of whom may act on several teams.
    'intake_ops.audit',
    'intake_ops.erasure_key',
    // Published questionnaires: of no team's patients.
    'intake_ops.instrument_bands',
    'intake_ops.instrument_items',
    'intake_ops.instrument_points',
    'intake_ops.instruments',
    // From which the keys of locks follow.
    'intake_ops.lock_secret',
    'intake_ops.migrations',
    'intake_ops.migrations_lock',
    'intake_ops.receipt_key',
    'intake_ops.view_files',
    // The progress of reading transactions of all teams.
    'intake_raw.answers_read',
  ])
})

asRecorded(() => twins)

readsApart(() => twins)

/** The other direction: twins.long.test.ts. */
describe('an action for north changes nothing of the other:', () => {
  changesApart(() => twins, 'north')
})
