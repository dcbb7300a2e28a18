"""Files out of wheels, kept in a folder: what pip can get is there the next time without a network."""
import glob
import os
import subprocess
import sys
import zipfile

SKIPPED = 77  # ctest's, of a test that cannot run here


def fetch(requirement, folder, prefixes, *options):
    """The paths of the wheel's files whose names begin with one of the prefixes; empty: it cannot be had.
    options: pip's, as for another platform."""
    os.makedirs(folder, exist_ok=True)

    def found():
        return [path for prefix in prefixes for path in glob.glob(os.path.join(folder, prefix + '*'))]

    if not found():
        command = [sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary=:all:',
                   *options, '--dest', folder, requirement]
        if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            return []
        for wheel in glob.glob(os.path.join(folder, '*.whl')):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if os.path.basename(name).startswith(tuple(prefixes)):
                        with open(os.path.join(folder, os.path.basename(name)), 'wb') as out:
                            out.write(archive.read(name))
            os.remove(wheel)
    return found()


def installed(package, folder):
    """Whether a package of Python's is in the folder, or could be put there; it is imported from there."""
    path = os.path.join(folder, package)
    if not os.path.isdir(path):
        command = [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary=:all:',
                   '--target', folder, package]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.path.isdir(path)
