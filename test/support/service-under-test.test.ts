import { describe, expect, it } from 'vitest'
import { isHarmless, real, realService } from './service-under-test.ts'

const ENV = {
  INTAKE_BASE_URL: 'https://sandbox.example.org/',
  INTAKE_API_KEY: 'a-key',
  INTAKE_API_SECRET: 'a-secret',
}

describe('the service that the conformance suite asks', () => {
  it('is never a real one under npm test, whatever the environment contains', () => {
    expect(real).toBeUndefined()
    expect(realService(false, ENV)).toBeUndefined()
  })

  it('is the emulator when the environment names none', () => {
    expect(realService(true, {})).toBeUndefined()
  })

  it('is the one that the environment names, read only by default', () => {
    const credentials = { 'X-API-KEY': 'a-key', 'X-API-SECRET': 'a-secret' }
    const found = { baseUrl: 'https://sandbox.example.org', credentials, mayWrite: false }
    expect(realService(true, ENV)).toEqual(found)
    expect(realService(true, { ...ENV, CONFORMANCE_WRITE: '1' })).toEqual({ ...found, mayWrite: true })
    expect(realService(true, { ...ENV, CONFORMANCE_WRITE: '0' })).toEqual(found)
  })

  it.each([
    ['a missing secret', { ...ENV, INTAKE_API_SECRET: '' }, /INTAKE_API_SECRET/],
    ['an address without TLS', { ...ENV, INTAKE_BASE_URL: 'http://sandbox.example.org' }, /https/],
  ])('is refused with %s, and no value is shown', (_title, env, message) => {
    expect(() => realService(true, env)).toThrow(message)
    expect(() => realService(true, env)).not.toThrow(/a-key|a-secret|sandbox/)
  })

  it('is sent nothing that may change it while it is read only', () => {
    const service = realService(true, ENV)!
    for (const [method, path] of [
      ['GET', '/v2/patients'],
      ['POST', '/v2/export-csv?type=json'],
    ] as const) {
      expect(isHarmless(service, method, path)).toBe(true)
    }
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      expect(isHarmless(service, method, '/v2/patients')).toBe(false)
      expect(isHarmless(service, method, '/v2/patients', { credentials: {} })).toBe(true)
    }
    expect(isHarmless(service, 'DELETE', '/v2/export-csv')).toBe(false)
  })
})
