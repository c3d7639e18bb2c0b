/** A receiver of alerts: a server that keeps the posts, and answers as a test sets. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isSigned } from '../../../src/core/signature.ts'
import type { AlertsDocument } from '../../../src/operate/alerts/post.ts'

export const SECRET = 'a secret of the receiver alone'

export interface Posted {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  readonly document: AlertsDocument
  readonly isSigned: boolean
}

export interface AlertReceiver extends AsyncDisposable {
  readonly url: string
  /** All posts, rejected ones included. */
  readonly posts: readonly Posted[]
  /** Posts since the last call. */
  taken(): readonly Posted[]
  /** The answer from now on; "hang" never answers. */
  answer(status: number | 'hang', headers?: Readonly<Record<string, string>>): void
}

export async function openReceiver(): Promise<AlertReceiver> {
  const posts: Posted[] = []
  let next: { status: number | 'hang'; headers?: Readonly<Record<string, string>> } = { status: 204 }
  let taken = 0
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const body = Buffer.concat(pieces)
    const signature = String(request.headers['x-service-signature'] ?? '')
    posts.push({
      path: request.url ?? '',
      headers: request.headers,
      body,
      document: JSON.parse(body.toString('utf8')) as AlertsDocument,
      isSigned: isSigned(body, signature, [SECRET]),
    })
    if (next.status !== 'hang') response.writeHead(next.status, next.headers).end()
  }
  const server = createServer((request, response) => void take(request, response).catch(() => {}))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/hooks/a-token?of=ours`,
    posts,
    taken() {
      const since = posts.slice(taken)
      taken = posts.length
      return since
    },
    answer(status, headers) {
      next = { status, ...(headers === undefined ? {} : { headers }) }
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The alerts of a post in short form. */
export function shortOf({ document }: Posted): readonly string[] {
  return document.alerts.map(({ status, cause, team, stream }) =>
    [status, cause, team, stream].filter((each) => each !== null).join(' '),
  )
}
