/**
 * Locks of the streams of a team, for runs that write a whole stream: backfill, replay, repair.
 *
 * Invariant: either all requested locks are taken, or none, and the error names the streams that another run has locked.
 * Locks last until they are released, at most as long as the session.
 */
import { IntakeError } from '../core/errors.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { lockHolders, tryLock, unlock } from '../warehouse/locks.ts'

export async function lockStreams(
  session: Session,
  streams: readonly Stream[],
  teams: readonly { readonly teamId: number; readonly name: string }[],
): Promise<void> {
  const locked: string[] = []
  const taken: string[] = []
  let holders: string | null = null
  for (const team of teams) {
    for (const stream of streams) {
      const key = keyOf(team, stream)
      if (await tryLock(session, 'stream', key)) taken.push(key)
      else {
        locked.push(`${stream.name} of ${team.name}`)
        holders ??= await lockHolders(session.db, 'stream', key)
      }
    }
  }
  if (locked.length === 0) return
  for (const key of taken) await unlock(session, 'stream', key)
  throw new IntakeError(`another run holds ${locked.join(', ')}; nothing was started`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: `wait for the other run to end, or stop it${holders === null ? '' : `: ${holders}`}`,
  })
}

/** Releases the locks of a team before the session ends. */
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
