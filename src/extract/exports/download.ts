/**
 * Downloads an export's file.
 *
 * Invariant: a returned file was read to its end. A body that breaks off is requested again, a few times. A body may have
 * been cut unnoticed when its length is unknown, it does not end with a line, or it is empty; it is accepted only when it
 * equals the known file, or two downloads agree.
 */
import { ApiError } from '../../api/errors.ts'
import { streamExport } from '../../api/resources/responses.ts'
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

/** `take` reads all pieces, and may be called again from the start; `known` is the hash of the stored file. */
export async function download(
  source: Source,
  id: string,
  known: string | null,
  take: (pieces: AsyncIterable<Buffer>) => Promise<Spooled>,
): Promise<Downloaded> {
  const { client, serviceClock, clock, meter, signal } = source
  let before = known
  for (let tries = 1; ; tries++) {
    const call = { meter, signal }
    const { stream, endKnown, headers, ...answer } = await streamExport(client, id, 'raw_text', call)
    serviceClock.sample(answer)
    try {
      const contentType = headers['content-type']
      if (/\bhtml\b/i.test(contentType ?? ''))
        throw refused('the service sent a page (HTML) in place of the file')
      const spooled = await take(stream)
      if ((endKnown && endsWhole(spooled, contentType)) || spooled.hash === before) {
        return { spooled, contentType, observedAt: serviceClock.observedAt(answer.startedAt) as Instant }
      }
      before = spooled.hash
      if (tries === TRIES) throw refused('the file may have been cut, and two downloads of it differ')
    } catch (error) {
      if (!isInterrupted(error) || tries === TRIES) throw error
      await clock.sleep(PAUSE_MS * tries, signal)
    } finally {
      stream.destroy()
    }
  }
}

/** True for a file that ends as a whole file does: with a line, or the quote of its JSON string. */
function endsWhole({ last }: Spooled, contentType: string | undefined): boolean {
  return last === 0x0a || last === 0x0d || (last === 0x22 && /\bjson\b/i.test(contentType ?? ''))
}

/** True for a failure that another download may not meet. */
function isInterrupted(error: unknown): boolean {
  return error instanceof ApiError && (error.code === 'connection_lost' || error.code === 'timeout')
}

function refused(message: string): IntakeError {
  return new IntakeError(message, { code: 'file_refused', verdict: 'dead_letter' })
}
