/**
 * The locks of streams, one a stream of a team, for whoever writes a stream as a whole: backfill, replay, a repair.
 *
 * Invariant: all that are asked for are taken, or an error says which another run holds and nothing is started. They
 * last as long as the session.
 */
import { IntakeError } from '../core/errors.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { tryLock } from '../warehouse/locks.ts'

export async function lockStreams(
  session: Session,
  streams: readonly Stream[],
  teams: readonly { readonly teamId: number; readonly name: string }[],
): Promise<void> {
  const held: string[] = []
  for (const team of teams) {
    for (const stream of streams) {
      if (!(await tryLock(session, 'stream', `${team.teamId}/${stream.name}`)))
        held.push(`${stream.name} of ${team.name}`)
    }
  }
  if (held.length === 0) return
  throw new IntakeError(`another run holds ${held.join(', ')}; nothing was started`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    mend: 'wait for the other run to end, or stop it',
  })
}
