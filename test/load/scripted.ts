/** A session without Postgres, whose statements have names. */
import type { Session } from '../../src/warehouse/connect.ts'
import { type Reply, scripted } from '../support/scripted.ts'

/** By name, a pattern of a statement, and the reply to the nth of its kind. */
type Steps = Readonly<Record<string, readonly [RegExp, (nth: number) => Reply]>>

/** `asked` lists the names of the statements in their order; a statement without a name fails the test. */
export function scriptedSession(steps: Steps) {
  const asked: string[] = []
  const db = scripted((statement) => {
    if (/^(begin|commit|rollback)$/.test(statement)) {
      asked.push(statement)
      return []
    }
    const [name, [, reply]] = Object.entries(steps).find(([, [pattern]]) => pattern.test(statement))!
    asked.push(name)
    return reply(asked.filter((each) => each === name).length)
  })
  return { asked, session: { db } as unknown as Session }
}
