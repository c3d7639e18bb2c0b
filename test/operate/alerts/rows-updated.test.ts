/** Which of several alerts are raised, raised again, continued, cleared or left alone, each by its own key. */
import { expect, test } from 'vitest'
import { type AlertRow, updateAlerts } from '../../../src/operate/alerts/alert-rows.ts'
import type { Condition } from '../../../src/operate/alerts/causes.ts'
import { scripted } from '../../support/scripted.ts'

const row = (
  id: string,
  cause: AlertRow['cause'],
  stream: string,
  more: Partial<AlertRow> = {},
): AlertRow => ({
  ...{ team: 'north', cause, stream, id, mark: null, figures: {}, raised_at: 'then', cleared_at: null },
  ...{ posted: 'raised', posted_mark: null, attempts: 0, is_due: true, ...more },
})
const condition = (cause: Condition['cause'], stream: string, more: Partial<Condition> = {}): Condition => ({
  ...{ team: 'north', cause, stream, mark: null, figures: { n: 1 }, ...more },
})

/** What happens to which alert: its id, or the key of a new one. */
async function updated(current: readonly AlertRow[], conditions: readonly Condition[]) {
  const done: string[] = []
  const db = scripted((statement, values) => {
    const what = /set cleared_at = now/.test(statement)
      ? 'clear'
      : /set cleared_at = null/.test(statement)
        ? 'continue'
        : /^update/.test(statement)
          ? 'more'
          : 'raise'
    const place = what === 'raise' ? [values.at(-1), values[0], values[1]].join('/') : values.at(-1)
    done.push(`${what} ${place}`)
    return []
  })
  await updateAlerts(db, current, { conditions, isJudged: ({ stream }) => stream !== 'unjudged', late: [] })
  return done
}

test('several alerts whose conditions are gone are cleared, except those that were not judged or are cleared already', async () => {
  const current = [
    ...[row('1', 'drift', 'forms'), row('2', 'drift', 'packets'), row('3', 'drift', 'unjudged')],
    ...[
      row('4', 'drift', 'documents', { cleared_at: 'then' }),
      row('5', 'drift', 'forms', { team: 'south' }),
    ],
    row('6', 'defect', 'forms'),
  ]
  expect(await updated(current, [])).toEqual(['clear 1', 'clear 2', 'clear 5', 'clear 6'])
  // A condition keeps only the alert of its own team, cause and stream.
  expect(await updated(current, [condition('drift', 'forms')])).toEqual(['clear 2', 'clear 5', 'clear 6'])
  expect(await updated(current, [condition('drift', 'forms', { team: 'south' })])).toEqual([
    ...['clear 1', 'clear 2', 'clear 6'],
  ])
})

test('each condition raises its own alert, and one that grows, or returns before it was known to be gone, continues', async () => {
  const current = [
    row('1', 'questions_waiting', '', { mark: 2 }),
    row('2', 'questions_waiting', '', { mark: 2, team: 'south' }),
    row('3', 'inbox_old', '', { cleared_at: 'then' }),
    row('4', 'dead_letters', 'forms', { cleared_at: 'then', posted: 'cleared' }),
    row('5', 'drift', 'forms', { cleared_at: 'then', posted: 'cleared', posted_mark: 4 }),
    row('6', 'drift', 'packets', { cleared_at: 'then', posted: 'cleared', posted_mark: 4 }),
  ]
  const conditions = [
    condition('questions_waiting', '', { mark: 3 }),
    condition('questions_waiting', '', { mark: 2, team: 'south' }),
    condition('inbox_old', ''),
    condition('dead_letters', 'forms'),
    condition('dead_letters', 'packets'),
    condition('drift', 'forms', { mark: 4 }),
    condition('drift', 'packets', { mark: 5 }),
    condition('defect', '', { mark: 1, team: 'south' }),
  ]
  expect(await updated(current, conditions)).toEqual([
    ...['more 1', 'continue 3', 'raise north/dead_letters/forms', 'raise north/dead_letters/packets'],
    ...['raise north/drift/packets', 'raise south/defect/'],
  ])
})
