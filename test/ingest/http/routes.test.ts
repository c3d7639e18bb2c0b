/** Request targets that are event paths, and their teams. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openRoutes } from '../../../src/ingest/http/endpoint.ts'

const routeOf = openRoutes(['north', 'a.b-c_d'])

it.each<[string, string | undefined]>([
  ['/webhooks', undefined],
  ['/webhooks/', undefined],
  ['/webhooks?team=north', undefined],
  ['/webhooks/?', undefined],
  ['/webhooks#part', undefined],
  ['/%77ebhooks', undefined],
  ['http://127.0.0.1:8080/webhooks', undefined],
  ['HTTPS://hooks.example/webhooks/north?x=/y', 'north'],
  ['/webhooks/north', 'north'],
  ['/webhooks/north/', 'north'],
  ['/webhooks/north?a=1', 'north'],
  ['/webhooks/nort%68', 'north'],
  ['/webhooks/a.b-c_d', 'a.b-c_d'],
  ['/webhooks/nobody', 'nobody'],
  ['/webhooks/a%2Fb', 'a/b'],
  ['/webhooks/NORTH', 'NORTH'],
])('%s is an event path', (target, team) => {
  expect(routeOf(target)).toEqual({ team })
})

it.each([
  '',
  '/',
  '*',
  '?',
  'webhooks',
  '//webhooks',
  '/webhooks//',
  '/webhooks//north',
  '/webhooks/north//',
  '/webhooks/north/more',
  '/webhook',
  '/webhooksnorth',
  '/Webhooks',
  '/webhooks%2Fnorth',
  '/webhooks/%E0%A4%A',
  '/webhooks/%',
  '/x/webhooks',
  'ftp://127.0.0.1/webhooks',
  'http://127.0.0.1',
  '/?/webhooks',
])('%s is not', (target) => {
  expect(routeOf(target)).toBeNull()
})

it('every team has a path, in any encoding', () => {
  const encode = (name: string) =>
    [...Buffer.from(name)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
  const names = fc.stringMatching(/^[\w.-]{1,63}$/)
  fc.assert(
    fc.property(names, fc.constantFrom('', '/'), fc.constantFrom('', '?', '?a=b/c'), (name, slash, query) => {
      for (const written of [name, encode(name)]) {
        expect(openRoutes([name])(`/webhooks/${written}${slash}${query}`)).toEqual({ team: name })
      }
    }),
  )
})
