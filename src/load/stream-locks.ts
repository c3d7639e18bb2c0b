/**
 * The locks of streams, one a stream of a team, for whoever writes a stream as a whole: backfill, replay, a repair.
 *
 * Invariant: all that are asked for are taken, or none, and an error says which another run holds. They last until they
 * are given back, at the latest as long as the session.
 */
import { IntakeError } from '../core/errors.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { tryLock, unlock } from '../warehouse/locks.ts'

export async function lockStreams(
  session: Session,
  streams: readonly Stream[],
  teams: readonly { readonly teamId: number; readonly name: string }[],
): Promise<void> {
  const held: string[] = []
  const taken: string[] = []
  for (const team of teams) {
    for (const stream of streams) {
      const key = keyOf(team, stream)
      if (await tryLock(session, 'stream', key)) taken.push(key)
      else held.push(`${stream.name} of ${team.name}`)
    }
  }
  if (held.length === 0) return
  for (const key of taken) await unlock(session, 'stream', key)
  throw new IntakeError(`another run holds ${held.join(', ')}; nothing was started`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: 'wait for the other run to end, or stop it',
  })
}

/** Gives the locks of a team back before the session ends. */
export async function unlockStreams(
  session: Session,
  streams: readonly Stream[],
  team: { readonly teamId: number },
): Promise<void> {
  for (const stream of streams) await unlock(session, 'stream', keyOf(team, stream))
}

function keyOf({ teamId }: { readonly teamId: number }, { name }: Stream): string {
  return `${teamId}/${name}`
}
