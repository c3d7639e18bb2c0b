/** What `init` prints to run intake-sync from now on. */
import { expect, it, onTestFinished, vi } from 'vitest'
import { parse } from 'yaml'
import { deployText } from '../../../src/commands/init/deploy.ts'

it('cron runs a backfill every night, with the settings file', () => {
  const [head, line, end] = deployText('cron', '/srv/settings.env').split('\n')
  expect([head, end]).toEqual(['# crontab -e', ''])
  const words = line!.split(/ +/)
  expect(words.slice(0, 6)).toEqual(['0', '2', '*', '*', '*', 'INTAKE_ENV_FILE=/srv/settings.env'])
  expect([words[6], words.slice(8)]).toEqual([process.execPath, ['backfill']])
  expect(words[7]).toMatch(/^\/.*\/cli\.js$/)
})

it('the unit serves, is started again after a failure but not after wrong settings, and keeps its files private', () => {
  const unit = deployText('systemd', '/srv/settings.env').split('\n')
  expect(unit[0]).toBe('# /etc/systemd/system/intake-sync.service')
  expect(unit.find((line) => line.startsWith('ExecStart='))).toMatch(/^ExecStart=\S+ \S+\/cli\.js serve$/)
  for (const line of [
    ...['[Unit]', 'Wants=network-online.target', 'After=network-online.target', '[Service]'],
    ...['Environment="INTAKE_ENV_FILE=/srv/settings.env"', 'WorkingDirectory=/srv', 'Restart=on-failure'],
    ...['RestartPreventExitStatus=2', 'UMask=0077', 'NoNewPrivileges=yes', 'LimitCORE=0'],
    ...['[Install]', 'WantedBy=multi-user.target'],
  ])
    expect(unit).toContain(line)
})

it('the container receives webhooks from this machine only, is started again after a failure, and reads the settings', () => {
  const serviceOf = (file: string) => parse(deployText('compose', file, '/nowhere')).services['intake-sync']
  const common = {
    image: 'intake-sync',
    command: 'serve',
    restart: 'on-failure',
    ports: ['127.0.0.1:8080:8080'],
  }
  expect(serviceOf('/srv/settings.env')).toEqual({
    ...{ ...common, env_file: '/srv/settings.env', environment: { INTAKE_WEBHOOK_HOST: '0.0.0.0' } },
  })
  const [user, group] = [vi.spyOn(process, 'getuid'), vi.spyOn(process, 'getgid')]
  user.mockReturnValue(1000)
  group.mockReturnValue(2000)
  onTestFinished(() => {
    user.mockRestore()
    group.mockRestore()
  })
  expect(serviceOf('/srv/settings.json')).toEqual({
    ...common,
    user: '1000:2000',
    volumes: ['/srv/settings.json:/run/intake-sync.json:ro'],
    environment: { INTAKE_ENV_FILE: '/run/intake-sync.json', INTAKE_WEBHOOK_HOST: '0.0.0.0' },
  })
})

it('a path with blanks, quotes and per cent signs stays one word for a crontab, systemd and Docker', () => {
  const file = "/srv/100 %/it's 5 % of o'clock.env"
  expect(deployText('cron', file)).toContain(
    String.raw` INTAKE_ENV_FILE='/srv/100 \%/it'\''s 5 \% of o'\''clock.env' `,
  )
  const unit = deployText('systemd', file).split('\n')
  expect(unit).toContain(`Environment="INTAKE_ENV_FILE=/srv/100 %%/it's 5 %% of o'clock.env"`)
  expect(unit).toContain('WorkingDirectory=/srv/100 %%')
  expect(parse(deployText('compose', file, '/nowhere')).services['intake-sync'].env_file).toBe(file)
})
