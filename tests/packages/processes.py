"""gpytorch: a Gaussian process fitted, and its predictions."""
import json

import gpytorch
import torch
from filled import numbers

torch.set_default_dtype(torch.float64)


class Process(gpytorch.models.ExactGP):
    """A constant mean, and a kernel of squared distances."""

    def __init__(self, x: object, y: object, likelihood: object) -> None:
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: object) -> object:
        """The process at some points."""
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


points = torch.linspace(0, 1, 20)
values = torch.sin(points * 6) + 0.1 * numbers(20)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(points, values, likelihood)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = -likelihood_of(model(points), values)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval()
likelihood.eval()
with torch.no_grad():
    guess = likelihood(model(torch.linspace(0, 1, 5)))
print(json.dumps([losses, guess.mean.tolist(), guess.variance.tolist()]))
