/** The service that sent a mixture's events: it returns each current record by its id. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Mixture } from './mixture.ts'
import { MIXED_STREAMS } from './records.ts'

export interface MixtureService extends AsyncDisposable {
  readonly url: string
  readonly requests: number
  /** Credentials of a team. */
  of(team: string): { readonly baseUrl: string; readonly apiKey: string; readonly apiSecret: string }
}

export async function startMixtureService({ teams, records }: Mixture): Promise<MixtureService> {
  let requests = 0
  const server = http.createServer((request, response) => {
    requests += 1
    request.resume()
    const answer = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    const team = String(request.headers['x-api-key'])
    if (!teams.includes(team)) return answer(403, { detail: 'Invalid credentials.' })
    const [, , name, id] = new URL(request.url!, 'http://any.invalid').pathname.split('/')
    const stream = MIXED_STREAMS.find((each) => each === name)
    const state =
      stream === undefined || stream === 'packet_responses' ? null : records.get(team)![stream].get(id!)
    return state ? answer(200, state.payload) : answer(404, { detail: 'Not found.' })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    get requests() {
      return requests
    },
    of: (team) => ({ baseUrl: url, apiKey: team, apiSecret: 'of the mixture' }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
