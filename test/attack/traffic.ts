/** Signed events during an attack, from the same address: half over kept connections, half over new ones. */
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'

export interface Traffic {
  /** Answered 200, of all that were sent. */
  readonly accepted: number
  readonly sent: number
  /** Of those that were answered, in milliseconds. */
  readonly p99: number
  /** Statuses and errors other than 200. */
  readonly refused: Readonly<Record<string, number>>
}

export function eventOf(id: string): Buffer {
  return Buffer.from(
    JSON.stringify({
      id: randomUUID(),
      timestamp: new Date().toISOString(),
      event_type: 'created',
      source: 'patient',
      data: {
        id,
        first_name: 'Ada',
        last_name: 'Test',
        updated_at: new Date().toISOString(),
        note: 'x'.repeat(700),
      },
    }),
  )
}

export function post(url: string, body: Buffer, secret: string, agent?: Agent): Promise<number | string> {
  return new Promise((resolve) => {
    const headers = { [SIGNATURE_HEADER]: sign(body, secret), 'content-length': body.length }
    const sent = request(
      `${url}`,
      { method: 'POST', headers, agent: agent ?? false, timeout: 10_000 },
      (answer) => {
        answer.resume().once('end', () => resolve(answer.statusCode ?? 0))
      },
    )
    sent.once('timeout', () => sent.destroy(new Error('timeout')))
    sent.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    sent.end(body)
  })
}

export async function send(
  url: string,
  secret: string,
  perSecond: number,
  seconds: number,
): Promise<Traffic> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  const waiting: Promise<void>[] = []
  const times: number[] = []
  const refused: Record<string, number> = {}
  for (let at = 0; at < perSecond * seconds; at += 1) {
    const begun = performance.now()
    const body = eventOf(`p-${at}`)
    waiting.push(
      post(url, body, secret, at % 2 === 0 ? agent : undefined).then((status) => {
        if (status === 200) times.push(performance.now() - begun)
        else refused[status] = (refused[status] ?? 0) + 1
      }),
    )
    await sleep(1000 / perSecond)
  }
  await Promise.all(waiting)
  agent.destroy()
  times.sort((a, b) => a - b)
  return {
    accepted: times.length,
    sent: waiting.length,
    p99: times[Math.floor(times.length * 0.99)] ?? 0,
    refused,
  }
}
