/**
 * One export's file, from the service into whatever takes its bytes.
 *
 * Invariant: what is handed back was read to its end. A body that breaks off is asked for again, a few times; one whose
 * end cannot be told from a cut is believed only when two readings of it agree.
 */
import { ApiError } from '../../api/errors.ts'
import { streamExport } from '../../api/exports.ts'
import { IntakeError } from '../../core/errors.ts'
import type { Instant } from '../../core/time.ts'
import type { Spooled } from '../../load/exports/spool.ts'
import type { Source } from '../source.ts'

export interface Downloaded {
  readonly spooled: Spooled
  readonly contentType: string | undefined
  readonly observedAt: Instant
}

const TRIES = 3
const PAUSE_MS = 500

/** `take` reads all pieces, and may be called again from the start. */
export async function download(
  source: Source,
  id: string,
  take: (pieces: AsyncIterable<Buffer>) => Promise<Spooled>,
): Promise<Downloaded> {
  const { client, serviceClock, clock, meter, signal } = source
  let doubted: string | null = null
  for (let tries = 1; ; tries++) {
    const { stream, endKnown, headers, ...answer } = await streamExport(client, id, 'raw_text', {
      meter,
      signal,
    })
    serviceClock.sample(answer)
    try {
      const spooled = await take(stream)
      if (endKnown || spooled.hash === doubted) {
        const observedAt = serviceClock.observedAt(answer.startedAt) as Instant
        return { spooled, contentType: headers['content-type'], observedAt }
      }
      doubted = spooled.hash
      if (tries === TRIES) throw endless()
    } catch (error) {
      if (!brokeOff(error) || tries === TRIES) throw error
      await clock.sleep(PAUSE_MS * tries, signal)
    } finally {
      stream.destroy()
    }
  }
}

/** True for a body that may come whole another time. */
export function brokeOff(error: unknown): boolean {
  return error instanceof ApiError && (error.code === 'connection_lost' || error.code === 'timeout')
}

function endless(): IntakeError {
  return new IntakeError('the end of the file cannot be told from a cut, and its readings differ', {
    code: 'end_unknown',
    verdict: 'set_aside',
  })
}
